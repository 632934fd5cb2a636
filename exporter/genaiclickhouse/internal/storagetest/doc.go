// Package storagetest runs the exporter against a real engine. It holds tests only, in a
// package of their own because they share one engine, which the generated leak check of
// the exporter's package would take for a leak.
package storagetest
