package tool

import (
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// scanned is how many instructions of a pattern, at one byte, take about as long as a visit.
const scanned = 16

// pattern is a regular expression that knows how many instructions it has: so many may look at each byte.
type pattern struct {
	*regexp.Regexp
	size float64
}

// newPattern compiles a pattern of a schema.
func newPattern(text string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	return pattern{Regexp: re, size: float64(len(prog.Inst))}, nil
}

// sizeOf is how many instructions a pattern of a schema has, and about that for one of the standard's own schemas.
func sizeOf(re jsonschema.Regexp) float64 {
	if p, ok := re.(pattern); ok {
		return p.size
	}
	return float64(len(re.String()))
}
