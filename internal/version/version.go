// Package version holds the version that the build stamps into the binaries.
package version

// Version is set by the linker; "dev" when built without it.
var Version = "dev"
