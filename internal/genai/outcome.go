package genai

import (
	"strings"
)

// readError decides whether the span failed and how, from what the span itself says.
func (n *node) readError() {
	if s, ok := n.f.num(slotHTTPStatus); ok && s >= 100 && s < 1000 {
		n.status = int(s)
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
