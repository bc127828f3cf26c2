"""Images: NIfTI as tables of voxels, neighbourhoods, lesions, pictures of slices, NIfTI and DICOM SEG out."""
