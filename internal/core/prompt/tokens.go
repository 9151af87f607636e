package prompt

import "unicode/utf8"

// Tokens estimates the tokens of a text without a vocabulary; it is never more than the text has bytes. A word of up to
// seven letters is one token, digits are one for each three, marks one for each two, and what is not Latin one for each
// character from the Far East on and one for each two before. On English, Go, YAML, JSON and listings it is within a
// fifth of what the public vocabularies count, and rather above; what a run's own requests were counted as corrects it
// (Ratio).
func Tokens(text string) int {
	n := 0
	for i := 0; i < len(text); {
		c := text[i]
		j := i + 1
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(text[i:])
			if j = i + size; r < 0x1100 {
				for j < len(text) && text[j] >= utf8.RuneSelf && j-i < 4 {
					j++
				}
			}
			n++
		case letter(c):
			for j < len(text) && letter(text[j]) && !(upper(text[j]) && !upper(text[j-1])) {
				j++
			}
			n += (j - i + 6) / 7
		case digit(c):
			for j < len(text) && digit(text[j]) {
				j++
			}
			n += (j - i + 2) / 3
		case c == ' ' || c == '\t':
			for j < len(text) && (text[j] == ' ' || text[j] == '\t') {
				j++
			}
			if j-i > 1 {
				n++ // a single one belongs to the word after it
			}
		default:
			for j < len(text) && mark(text[j]) && j-i < 2 {
				j++
			}
			n++
		}
		i = j
	}
	return n
}

func upper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func letter(c byte) bool { return upper(c) || c >= 'a' && c <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }
func mark(c byte) bool {
	return c < utf8.RuneSelf && !letter(c) && !digit(c) && c != ' ' && c != '\t'
}

// Crop shortens a text to about so many tokens; its beginning and its end stay, and what is between says how much was
// left out. Text that fits is returned as it is.
func Crop(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := Tokens(text)
	if n <= most {
		return text
	}
	keep := max(0, int(float64(len(text))*float64(most)/float64(n))-48)
	head, tail := runeStart(text, keep*2/3), runeStart(text, len(text)-keep/3)
	return text[:head] + "\n... " + bytesOut(tail-head) + " left out ...\n" + text[tail:]
}

// runeStart is the last place at or before i at which a character begins.
func runeStart(text string, i int) int {
	for i > 0 && i < len(text) && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}
