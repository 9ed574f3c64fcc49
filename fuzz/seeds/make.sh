#!/bin/sh
# Makes the seeds of `debug-information` that are compiled, with Debian 12's clang 14 and gcc 12. Their bytes lie in
# corpus/debug-information; run this beside other compilers and they change, and nothing else does.
set -e
cd "$(dirname "$0")"
out=../corpus/debug-information
plain="-ffile-prefix-map=$PWD=. -c -Wno-everything -fno-ident -fno-asynchronous-unwind-tables"
# Objects whose relocations leave numbers in place, so that names are found without a linker.
clang --target=i386-linux-gnu -gdwarf-4 $plain types.c -o $out/elf32-dwarf-4
clang --target=i386-linux-gnu -gdwarf-5 $plain types.cc -o $out/elf32-dwarf-5
clang --target=mips-linux-gnu -gdwarf-4 $plain types.c -o $out/big-endian-dwarf-4
clang --target=mips-linux-gnu -gdwarf-5 $plain types.c -o $out/big-endian-dwarf-5
clang --target=i386-linux-gnu -gdwarf-2 $plain types.c -o $out/elf32-dwarf-2
clang --target=i686-windows-gnu -gdwarf-4 $plain types.c -o $out/coff-32
clang --target=x86_64-windows-gnu -gdwarf-5 $plain types.cc -o $out/coff-64
clang --target=i386-apple-macos10.10 -gdwarf-4 $plain types.c -o $out/mach-o-32
# Linked ones: DWARF of 64 bits, types in units of their own, split units, compressed sections.
shared="-ffile-prefix-map=$PWD=. -shared -nostdlib -fPIC -fno-ident -fno-asynchronous-unwind-tables -w -Wl,--build-id=none -Wl,--hash-style=sysv -Wl,-z,noseparate-code -Wl,-z,max-page-size=16"
gcc $shared -gdwarf-5 types.c -o $out/gcc-dwarf-5
gcc $shared -gdwarf-2 -gstrict-dwarf types.c -o $out/gcc-dwarf-2
gcc $shared -gdwarf-3 types.cc -o $out/gcc-dwarf-3
gcc $shared -gdwarf-5 types.cc -o $out/gcc-c++
gcc $shared -gdwarf-5 -gdwarf64 types.c -o $out/gcc-dwarf64
gcc $shared -gdwarf-4 -fdebug-types-section types.cc -o $out/type-units-4
gcc $shared -gdwarf-5 -fdebug-types-section types.cc -o $out/type-units-5
gcc $shared -gdwarf-4 -gsplit-dwarf types.c -o $out/split-4
gcc $shared -gdwarf-5 -gsplit-dwarf types.c -o $out/split-5
gcc $shared -gdwarf-5 -gz types.c -o $out/compressed
gcc $shared -gdwarf-5 -gz=zlib-gnu types.c -o $out/compressed-gnu
clang --target=x86_64-linux-gnu $shared -gdwarf-5 types.c -o $out/clang-dwarf-5
clang --target=x86_64-linux-gnu $shared -gdwarf-5 types.cc -o $out/clang-c++
clang --target=x86_64-linux-gnu $shared -gdwarf-5 -gdwarf64 types.c -o $out/clang-dwarf64
clang --target=x86_64-linux-gnu $shared -gdwarf-4 -gdwarf-aranges types.c -o $out/clang-dwarf-4
gcc $shared -gdwarf-5 parts.c -o $out/gcc-parts
clang --target=x86_64-linux-gnu $shared -gdwarf-4 parts.c -o $out/clang-parts
gcc $shared -std=c++20 -gdwarf-5 parts.cc -o $out/gcc-parts-c++
clang --target=x86_64-linux-gnu $shared -std=c++20 -gdwarf-5 parts.cc -o $out/clang-parts-c++
rm -f ./*.dwo $out/*.dwo
# DLLs, of which the doctor reads debug information, too.
dll() {
    clang --target=x86_64-windows-gnu $plain "$@" -o dll.o
    ld -m i386pep -shared --no-insert-timestamp --section-alignment 4096 --file-alignment 16 dll.o -o $out/dll
    rm dll.o
}
dll -gdwarf-4 layouts.c
mv $out/dll ../corpus/library/layouts
dll -gdwarf-4 -DSTRANGE layouts.c
mv $out/dll ../corpus/library/layouts-strange
dll -gdwarf-4 types.c
mv $out/dll ../corpus/library/types
dll -gdwarf-4 types.cc
mv $out/dll ../corpus/library/types-c++
dll -gdwarf-4 parts.c
mv $out/dll ../corpus/library/parts
