"""The figures of the paper (Feng, Tang, Zhang, Liu, ICLR 2021), measured again with this library."""
