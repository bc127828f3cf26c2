"""Images as tables of voxels: lesions, pictures of slices, NIfTI and DICOM SEG out."""
