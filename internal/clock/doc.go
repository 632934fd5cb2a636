// Package clock injects time: the machine's clock in production, a manual one in
// tests, the demo and replays.
package clock
