// Package api serves what driftline found as JSON, for programs: version 1 under /api/v1/,
// described by openapi.json. It only reads, and is mounted behind the pages' own guard of
// hosts and methods.
package api
