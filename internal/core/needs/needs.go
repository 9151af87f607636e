// Package needs reads what an agent requires of the place its commands run in, such as "go>=1.22" and "git" (SBX-21),
// and judges what was found there.
//
// Promises: pure; a requirement that cannot be read is an error, and a version that cannot be found meets no
// requirement.
package needs

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
)

// Need is one requirement: a command, and where Op is not empty the version it must have.
type Need struct{ Command, Op, Version string }

// Max is the most requirements of one agent.
const Max = 32

// maxCommand is the longest name of a command, in bytes.
const maxCommand = 64

var form = pattern.New(`^([A-Za-z0-9][A-Za-z0-9._+-]*?)(?:\s*(>=|<=|==|=|>|<)\s*([0-9]{1,9}(?:\.[0-9]{1,9}){0,3}))?$`)

// Parse reads a requirement.
func Parse(text string) (Need, error) {
	m := form.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || len(m[1]) > maxCommand {
		return Need{}, fmt.Errorf("requirement %.80q: want a command such as git, or one with its version such as go>=1.22",
			text)
	}
	if m[2] == "=" {
		m[2] = "=="
	}
	return Need{m[1], m[2], m[3]}, nil
}

// ParseAll reads requirements.
func ParseAll(texts []string) ([]Need, error) {
	var all []Need
	for _, text := range texts {
		n, err := Parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func (n Need) String() string { return n.Command + n.Op + n.Version }

var (
	number = pattern.New(`[0-9]{1,9}(?:\.[0-9]{1,9})+`)
	digits = pattern.New(`\b[0-9]{1,9}\b`)
)

// VersionIn finds a version in what a command says of itself, "" where there is none.
func VersionIn(output string) string {
	if found := number.FindString(output); found != "" {
		return found
	}
	return digits.FindString(output)
}

// Missing says what is missing of a requirement, "" for nothing: found reports whether the command is there, output is
// what it says of itself.
func (n Need) Missing(found bool, output string) string {
	if !found {
		return fmt.Sprintf("%s is required and missing", n)
	}
	if n.Op == "" {
		return ""
	}
	has := VersionIn(output)
	if has == "" {
		return fmt.Sprintf("%s is required, and %s does not print its version", n, n.Command)
	}
	c := compare(has, n.Version)
	if ok := map[string]bool{">=": c >= 0, "<=": c <= 0, "==": c == 0, ">": c > 0, "<": c < 0}[n.Op]; !ok {
		return fmt.Sprintf("%s is required, and %s is version %s", n, n.Command, has)
	}
	return ""
}

// compare compares the parts that the wanted version names: 1.22.3 is 1.22.
func compare(has, want string) int {
	h, w := strings.Split(has, "."), strings.Split(want, ".")
	for i, part := range w {
		got := 0
		if i < len(h) {
			got = whole(h[i])
		}
		if c := cmp.Compare(got, whole(part)); c != 0 {
			return c
		}
	}
	return 0
}

func whole(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0 // no more than nine digits were let in
	}
	return n
}
