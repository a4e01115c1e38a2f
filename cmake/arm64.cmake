# Builds for arm64 on a Debian of another architecture; what is built runs by qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
# Libraries of this architecture are beside them, where pkg-config would find them.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# The driver is loaded and not linked. Only its headers are used, which Debian has for one architecture at a time.
file(GLOB mongoc-1.0_DIR /usr/lib/*-linux-gnu/cmake/mongoc-1.0)
file(GLOB bson-1.0_DIR /usr/lib/*-linux-gnu/cmake/bson-1.0)
