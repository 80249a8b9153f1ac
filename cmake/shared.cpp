// liblumi.so has no code of its own: it is all parts below the server in one file (install.cmake).
