// Package settings reads detectd.yaml into the detector's configuration, and says all that
// is wrong with the file at once, each with its line and key.
//
// The keys are the yaml tags of detector.Config and what it holds; docs/configuration.md
// is made of them, their comments and their defaults.
package settings

//go:generate go run ./settingsgen ../../docs/configuration.md
