package server

import (
	"errors"
	"net/http"

	"driftline/internal/chdb"
)

// Error codes of ClickHouse that this endpoint raises itself.
const (
	codeCannotReadAllData = 33
	codeBadArguments      = 36
	codeChecksum          = 40
	codeNotImplemented    = 48
	codeSyntaxError       = 62
	codeTooManyQueries    = 202
	codeSameQueryID       = 216
	codeUnknownCompress   = 89
	codeRequiredPassword  = 194
	codeTooManyBytes      = 307
	codeQueryCancelled    = 394
	codeAuthFailed        = 516
)

var httpStatus = map[int]int{
	194: http.StatusUnauthorized,
	192: http.StatusForbidden, 193: http.StatusForbidden, 497: http.StatusForbidden, 516: http.StatusForbidden,
	6: http.StatusBadRequest, 25: http.StatusBadRequest, 26: http.StatusBadRequest, 27: http.StatusBadRequest,
	33: http.StatusBadRequest, 36: http.StatusBadRequest, 38: http.StatusBadRequest, 41: http.StatusBadRequest,
	42: http.StatusBadRequest, 43: http.StatusBadRequest, 53: http.StatusBadRequest, 62: http.StatusBadRequest,
	69: http.StatusBadRequest, 70: http.StatusBadRequest, 72: http.StatusBadRequest, 89: http.StatusBadRequest,
	117: http.StatusBadRequest, 130: http.StatusBadRequest, 131: http.StatusBadRequest, 216: http.StatusBadRequest,
	456: http.StatusBadRequest, 457: http.StatusBadRequest,
	46: http.StatusNotFound, 47: http.StatusNotFound, 50: http.StatusNotFound, 56: http.StatusNotFound,
	60: http.StatusNotFound, 73: http.StatusNotFound, 81: http.StatusNotFound, 115: http.StatusNotFound,
	307: http.StatusRequestEntityTooLarge,
	48:  http.StatusNotImplemented,
	159: http.StatusRequestTimeout,
	202: http.StatusServiceUnavailable, 439: http.StatusServiceUnavailable,
}

// statusOf returns the HTTP status that ClickHouse gives an error code.
func statusOf(code int) int {
	if s, ok := httpStatus[code]; ok {
		return s
	}
	return http.StatusInternalServerError
}

func asException(err error) *chdb.Error {
	var e *chdb.Error
	if errors.As(err, &e) {
		return e
	}
	return &chdb.Error{Code: 1001, Name: "STD_EXCEPTION", Message: err.Error()}
}

func refuse(message string) *chdb.Error {
	return &chdb.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "driftline's embedded engine: " + message}
}
