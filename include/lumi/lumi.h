// Everything of the library.
#pragma once

#include <lumi/assistant.h>
#include <lumi/error.h>
