package events

import "bytes"

// htmlSigns are the escapes that encoding/json writes for signs that mean something in HTML.
var htmlSigns = map[string]byte{`u003c`: '<', `u003e`: '>', `u0026`: '&'}

// Plain returns JSON text that means the same and has < > & as they are, where encoding/json would write escapes for
// pages of HTML. It is for people: what is stored is hashed by its very bytes.
func Plain(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		if end := i + 6; end <= len(text) {
			if sign, ok := htmlSigns[string(bytes.ToLower(text[i+1:end]))]; ok && text[i+1] == 'u' {
				out = append(out, sign)
				i = end - 1
				continue
			}
		}
		out = append(out, text[i], text[i+1]) // a backslash that is escaped begins no escape
		i++
	}
	return out
}
