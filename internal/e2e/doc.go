// Package e2e holds tests that run the built programs as people run them, with real SDKs, a real Alertmanager and the
// real engine.
package e2e
