package terminal

// Paint colours text, or leaves it as it is.
type Paint bool

func (p Paint) code(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p Paint) Bold(s string) string { return p.code("1", s) }

func (p Paint) Dim(s string) string { return p.code("2", s) }

func (p Paint) Red(s string) string { return p.code("31", s) }

func (p Paint) Green(s string) string { return p.code("32", s) }

func (p Paint) Yellow(s string) string { return p.code("33", s) }

func (p Paint) Cyan(s string) string { return p.code("36", s) }

// State colours a word by what it says.
func (p Paint) State(word string) string {
	switch word {
	case "completed":
		return p.Green(word)
	case "failed", "held":
		return p.Red(word)
	case "paused", "waiting", "waiting: provider":
		return p.Yellow(word)
	case "running", "created":
		return p.Cyan(word)
	}
	return word
}
