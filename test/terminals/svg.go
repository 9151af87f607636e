package terminals

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Frame is one screen with a line above it that says what it is.
type Frame struct {
	Caption string
	// Screen has SGR sequences, as tmux capture-pane -e prints them.
	Screen string
}

// Sizes of a picture.
const (
	charWide, lineHigh, border = 7.8, 17, 14
	top                        = 34
)

// colours of the eight and the eight bright ones.
var colours = [...]string{"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc"}

// Picture draws frames below each other.
func Picture(title string, frames []Frame, wide int) string {
	var b strings.Builder
	y := top + lineHigh
	for i, f := range frames {
		if i > 0 {
			y += lineHigh / 2
			fmt.Fprintf(&b, "<line x1=\"0\" x2=\"100%%\" y1=\"%d\" y2=\"%d\" stroke=\"#30363d\"/>\n", y-lineHigh, y-lineHigh)
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" fill=\"#8b949e\" font-style=\"italic\">%s</text>\n", border, y,
			escaped(f.Caption))
		y += lineHigh
		for line := range strings.SplitSeq(strings.TrimRight(f.Screen, "\n"), "\n") {
			if text := drawn(line); text != "" {
				fmt.Fprintf(&b, "<text y=\"%d\">%s</text>\n", y, text)
			}
			y += lineHigh
		}
	}
	width := int(float64(wide)*charWide) + 2*border
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%[3]s</title>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
<circle cx="18" cy="16" r="5" fill="#ff5f57"/><circle cx="36" cy="16" r="5" fill="#febc2e"/><circle cx="54" cy="16" r="5" fill="#28c840"/>
<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13" fill="#c9d1d9" xml:space="preserve">
%[4]s</g>
</svg>
`, width, y, escaped(title), b.String())
}

// Text is the frames without colours.
func Text(frames []Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "== %s\n", f.Caption)
		for line := range strings.SplitSeq(strings.TrimRight(plain(f.Screen), "\n"), "\n") {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// plain is a screen without its SGR sequences.
func plain(screen string) string {
	var b strings.Builder
	for screen != "" {
		text, rest, _ := strings.Cut(screen, "\x1b[")
		b.WriteString(text)
		_, screen, _ = strings.Cut(rest, "m")
	}
	return b.String()
}

// drawn is a line of a screen: a part for each run of characters that look the same, at its column.
func drawn(line string) string {
	var b strings.Builder
	var now look
	column := 0
	for line != "" {
		if rest, ok := strings.CutPrefix(line, "\x1b["); ok {
			if end := strings.IndexByte(rest, 'm'); end >= 0 && strings.Trim(rest[:end], "0123456789;") == "" {
				now.set(rest[:end])
				line = rest[end+1:]
				continue
			}
		}
		text := line
		if i := strings.IndexByte(line[1:], '\x1b'); i >= 0 {
			text = line[:i+1]
		}
		line = line[len(text):]
		if strings.TrimSpace(text) != "" {
			fmt.Fprintf(&b, `<tspan x="%.1f"%s>%s</tspan>`, border+float64(column)*charWide, now.attributes(), escaped(text))
		}
		column += utf8.RuneCountInString(text)
	}
	return b.String()
}

// look is how characters look.
type look struct {
	bold, faint, italic bool
	colour              string
}

func (l *look) set(codes string) {
	all := strings.Split(codes, ";")
	for i := 0; i < len(all); i++ {
		n, _ := strconv.Atoi(all[i]) // none is 0
		switch {
		case n == 0:
			*l = look{}
		case n == 1:
			l.bold = true
		case n == 2:
			l.faint = true
		case n == 3:
			l.italic = true
		case n == 22:
			l.bold, l.faint = false, false
		case n == 39:
			l.colour = ""
		case n >= 30 && n <= 37:
			l.colour = colours[n-30]
		case n >= 90 && n <= 97:
			l.colour = colours[n-90+8]
		case n == 38 || n == 48:
			i += 2 // of 256; of those the program uses none
		}
	}
}

func (l look) attributes() (text string) {
	if l.colour != "" {
		text += ` fill="` + l.colour + `"`
	}
	if l.bold {
		text += ` font-weight="bold"`
	}
	if l.faint {
		text += ` opacity="0.65"`
	}
	if l.italic {
		text += ` font-style="italic"`
	}
	return text
}

// escaped keeps spaces, which SVG would join.
func escaped(text string) string {
	return strings.ReplaceAll(html.EscapeString(text), " ", "\u00a0")
}
