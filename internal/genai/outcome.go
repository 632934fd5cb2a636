package genai

import (
	"strconv"
	"strings"
)

// readError decides whether the span failed and how, from what the span itself says.
func (n *node) readError() {
	if s, ok := n.f.num(slotHTTPStatus); ok && s >= 100 && s < 1000 {
		n.status = int(s)
	}
	if n.status == 0 && n.f.has(slotRPCStatus) {
		n.status = rpcStatus(n.f.str(slotRPCStatus))
	}
	text := n.f.str(slotErrorType)
	failed := n.Status == StatusError
	if text == "" && failed {
		text = n.exceptionType()
	}
	n.errType = ErrorName(text)
	if n.f.holds(slotSuccess) {
		if ok, known := n.f.val(slotSuccess).AsBool(); known && !ok {
			failed = true
		}
	}
	if strings.EqualFold(n.f.str(slotLevel), "ERROR") || strings.EqualFold(n.f.str(slotToolStatus), "error") {
		failed = true
	}
	if n.class == classModel && n.finishReason() == "error" {
		failed = true
	}
	status := n.status
	if n.Status == StatusOK {
		status = 0 // the instrumentation's own judgement stands
		if n.errType == "" && !failed {
			return
		}
	}
	n.errClass = ErrorClass(status, clip(text, maxErrorText), failed)
}

// rpcStatuses are the statuses of gRPC by number, and the HTTP status that google.rpc.Code
// documents for each.
var rpcStatuses = [...]struct {
	name string
	http int
}{
	{"OK", 200}, {"CANCELLED", 499}, {"UNKNOWN", 500}, {"INVALID_ARGUMENT", 400}, {"DEADLINE_EXCEEDED", 504}, {"NOT_FOUND", 404},
	{"ALREADY_EXISTS", 409}, {"PERMISSION_DENIED", 403}, {"RESOURCE_EXHAUSTED", 429}, {"FAILED_PRECONDITION", 400}, {"ABORTED", 409},
	{"OUT_OF_RANGE", 400}, {"UNIMPLEMENTED", 501}, {"INTERNAL", 500}, {"UNAVAILABLE", 503}, {"DATA_LOSS", 500}, {"UNAUTHENTICATED", 401},
}

// rpcStatus is the HTTP status that stands for a status of gRPC or Connect, 0 for none.
func rpcStatus(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		if n >= 0 && n < len(rpcStatuses) {
			return rpcStatuses[n].http
		}
		return 0
	}
	if strings.EqualFold(s, "canceled") {
		s = "CANCELLED" // as Connect spells it
	}
	for i := range rpcStatuses {
		if strings.EqualFold(s, rpcStatuses[i].name) {
			return rpcStatuses[i].http
		}
	}
	return 0
}

// maxErrorText is how much of an error's text is searched for what names its class.
const maxErrorText = 512

func (n *node) exceptionType() string {
	for i := range n.Events {
		e := &n.Events[i]
		if e.Name != "exception" {
			continue
		}
		for j := range e.Attrs {
			if e.Attrs[j].Key == "exception.type" {
				s, _ := e.Attrs[j].Value.AsString()
				return s
			}
		}
	}
	return ""
}

// finishReason is the first finish reason, or "error" if any of them is. Some write
// the list as JSON text.
func (n *node) finishReason() string {
	v := n.f.val(slotFinish)
	if v == nil {
		return ""
	}
	list := v.List
	if v.Type != ValueStrings {
		s, _ := v.AsString()
		list = strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(`[]", `, r) })
	}
	first := ""
	for _, s := range list {
		if strings.EqualFold(s, "error") {
			return "error"
		}
		if first == "" {
			first = s
		}
	}
	return clip(first, 64)
}

// clip bounds s to n bytes without cutting a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
