package genai

import (
	"strconv"
	"strings"

	"driftline/internal/rows"
)

// ErrorClass gives the rows.Class constant for a failure, or "" when nothing failed.
// httpStatus is the last HTTP status seen (0 for none), errorType the
// instrumentation's word for the error or an exception's type, and statusError the
// span's own error status. The HTTP status decides where it names a failure: 408, 504
// and 524 are one class with client timeouts, and 429, 503 and 529 are overload.
func ErrorClass(httpStatus int, errorType string, statusError bool) string {
	if c := classOfStatus(httpStatus); c != "" {
		return c
	}
	if errorType == "" {
		if statusError {
			return rows.ClassOther
		}
		return ""
	}
	if n, err := strconv.Atoi(strings.TrimSpace(errorType)); err == nil {
		if c := classOfStatus(n); c != "" {
			return c
		}
		switch n {
		case domAbort:
			return rows.ClassCancelled
		case domTimeout:
			return rows.ClassTimeout
		}
		return rows.ClassOther
	}
	word := strings.ToLower(errorType)
	if brokenConnection[word[strings.LastIndexAny(word, ".:")+1:]] {
		return rows.ClassNetwork
	}
	for _, c := range classWords {
		for _, w := range c.words {
			if strings.Contains(word, w) {
				return c.class
			}
		}
	}
	return rows.ClassOther
}

// The codes of DOMExceptions AbortError and TimeoutError. The instrumentation of Node's fetch writes an exception's code
// where it has one.
const (
	domAbort   = 20
	domTimeout = 23
)

func classOfStatus(status int) string {
	switch status {
	case 408, 504, 522, 524:
		return rows.ClassTimeout
	case 429, 503, 529:
		return rows.ClassOverload
	case 499:
		return rows.ClassCancelled
	}
	switch {
	case status >= 500 && status < 600:
		return rows.ClassServer
	case status >= 400 && status < 500:
		return rows.ClassClient
	}
	return ""
}

// brokenConnection holds words that name a failed connection only when they are the whole
// of an error's name, after its package.
var brokenConnection = map[string]bool{
	"readerror": true, "writeerror": true, "closeerror": true, "proxyerror": true, "clientoserror": true,
	"enotfound": true, "eai_again": true, "epipe": true, "ehostdown": true, "enetdown": true,
	"chunkedencodingerror": true, "incompleteread": true,
}

// classWords are tried in order: what names a cause closest to the wire comes last,
// since names such as ConnectTimeout hold two causes.
var classWords = []struct {
	class string
	words []string
}{
	{rows.ClassTimeout, []string{"timeout", "timed out", "timed_out", "timedout", "deadline"}},
	{rows.ClassOverload, []string{"ratelimit", "rate_limit", "rate limit", "overload", "throttl", "toomanyrequests", "too_many_requests", "resource_exhausted", "resourceexhausted", "quota", "serviceunavailable", "service_unavailable", "capacity"}},
	{rows.ClassCancelled, []string{"cancel", "abort", "interrupt"}},
	{rows.ClassNetwork, []string{"connect", "network", "dns", "socket", "econn", "reset", "refused", "eof", "brokenpipe", "broken pipe", "unreachable", "ssl", "tls", "protocolerror", "unavailable"}},
	{rows.ClassServer, []string{"internalserver", "internal_server", "server_error", "servererror", "badgateway", "bad_gateway", "internal"}},
	{rows.ClassClient, []string{"badrequest", "bad_request", "invalid", "auth", "permission", "forbidden", "notfound", "not_found", "unprocessable", "validation", "content_filter", "contentfilter", "conflict", "toolarge", "context_length"}},
}

// retryable says whether a failure of this class is evidence that a try which follows
// is another attempt. A rejected request or a cancelled one is not tried again as is.
func retryable(class string) bool {
	switch class {
	case rows.ClassTimeout, rows.ClassOverload, rows.ClassServer, rows.ClassNetwork, rows.ClassOther:
		return true
	}
	return false
}
