package pattern_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/pattern"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	p := pattern.New(`([a-z])([0-9])`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if !p.MatchString("a1") || p.MatchString("A1") {
				t.Error("the pattern matches something else")
			}
		})
	}
	wg.Wait()
	if got := p.FindStringIndex("-a1"); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("got %v", got)
	}
	if got := p.FindStringSubmatch("-a1"); !slices.Equal(got, []string{"a1", "a", "1"}) {
		t.Errorf("got %q", got)
	}
	if got := p.FindSubmatch([]byte("b2")); len(got) != 3 || string(got[2]) != "2" {
		t.Errorf("got %q", got)
	}
	if got := p.FindAllStringSubmatch("a1 b2 c3", 2); len(got) != 2 || got[1][1] != "b" {
		t.Errorf("got %q", got)
	}
	if got := p.FindAllString("a1 b2 c3", 2); !slices.Equal(got, []string{"a1", "b2"}) {
		t.Errorf("got %q", got)
	}
	if got := p.ReplaceAllStringFunc("a1 b2", func(m string) string { return m + m }); got != "a1a1 b2b2" {
		t.Errorf("got %q", got)
	}
	if got := p.ReplaceAllString("a1 b2", "$2$1"); got != "1a 2b" {
		t.Errorf("got %q", got)
	}
}

func TestWrongExpressionPanicsWhenUsed(t *testing.T) {
	t.Parallel()
	p := pattern.New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("an expression that is wrong was used")
		}
	}()
	p.MatchString("x")
}
