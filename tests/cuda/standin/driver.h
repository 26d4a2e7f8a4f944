// What libraries on the stand-in for a device need of its driver.
#pragma once

// NOLINTBEGIN(readability-identifier-naming): names of the driver
extern "C" {
int cuCtxGetCurrent(void** context);
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument);
}
// NOLINTEND(readability-identifier-naming)
