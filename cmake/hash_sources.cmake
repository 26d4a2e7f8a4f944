cmake_minimum_required(VERSION 3.25)
# cmake -DROOT=… -DLIST=… -DOUT=… -P: a header with one hash over the files that LIST names, a line
# each, relative to ROOT. Not written anew when nothing changed.
file(STRINGS ${LIST} files)
foreach(file ${files})
  file(SHA256 ${ROOT}/${file} hash)
  string(APPEND all "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${OUT}
  CONTENT "#pragma once\n\n#define WEFT_SOURCES_HASH \"@hash@\"\n" @ONLY)
