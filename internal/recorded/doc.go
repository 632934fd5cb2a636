// Package recorded holds what real SDKs under real instrumentation sent, as fixtures without content, together with
// the test server's own log of the same attempts. Sanitize is the one place that decides what a fixture may contain.
package recorded
