//go:build slow

package sandboxtest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/test/robust/report"
)

// TestRobustExams is the part "exams" of the robust programme: the whole exam of each backend whose double is given
// only a part of it elsewhere.
func TestRobustExams(t *testing.T) {
	p := report.Part{Name: "exams", Title: "The whole exam of sandboxes on doubles of other machines"}
	for _, dir := range []string{"kubernetes", "microvm"} {
		out := p.Slow(t.Context(), "SBX-3", filepath.Join("..", dir), "^(TestExam|TestClaimExam|TestQEMUExam)$")
		if strings.Contains(out, notHere) {
			p.Violate("%s: the exam was not taken whole", dir)
		}
	}
	for _, v := range p.Violations {
		t.Error(v)
	}
	if err := p.Save(); err != nil {
		t.Error(err)
	}
}
