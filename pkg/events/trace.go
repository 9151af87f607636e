package events

import "strings"

// ValidTraceParent reports whether a text is a trace context of version 00 of W3C Trace Context:
// "00-" 32 hex digits "-" 16 hex digits "-" 2 hex digits, in lower case, neither id all zeros.
func ValidTraceParent(s string) bool {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	trace, span := s[3:35], s[36:52]
	return strings.Trim(trace+span+s[53:], "0123456789abcdef") == "" && strings.Trim(trace, "0") != "" &&
		strings.Trim(span, "0") != ""
}
