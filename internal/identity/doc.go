// Package identity turns who a request was for, a user or a tenant, into a keyed hash, so
// that requests of one user can be counted and found without anything stored that names one.
package identity
