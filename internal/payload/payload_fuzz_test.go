package payload

import "testing"

// FuzzTemplate looks for texts that break what reads them, and for values that are read again.
func FuzzTemplate(f *testing.F) {
	f.Add("a {{b.c}} d", `{"b":{"c":"{{x}}"}}`)
	f.Add("{{", "{}")
	f.Fuzz(func(t *testing.T, text, body string) {
		made, err := ParseTemplate(text)
		if err != nil {
			return
		}
		p, err := Read([]byte(body))
		if err != nil {
			return
		}
		if out, err := made.Render(p); err == nil && len(made.places) == 0 && out != text {
			t.Errorf("%q became %q", text, out)
		}
	})
}
