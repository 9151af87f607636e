package main

import (
	"strings"
	"testing"
)

// summary is what go test -json says of a backend with one way out that is open and one bomb that leaves something.
const said = `go: downloading nothing
{"Action":"output","Test":"TestExam/SBX-1_exec","Output":"=== RUN\n"}
{"Action":"pass","Test":"TestExam/SBX-1_exec/a_signal_is_told"}
{"Action":"output","Test":"TestExam/SBX-1_exec/b","Output":"    exam.go:61: NOT TESTED: sandbox mode x has no signals: it is deaf\n"}
{"Action":"skip","Test":"TestExam/SBX-1_exec/b"}
{"Action":"output","Test":"TestExam/files","Output":"    files.go:1: got 1,\n want 2\n"}
{"Action":"fail","Test":"TestExam/files"}
{"Action":"fail","Test":"TestExam/SBX-1_exec"}
{"Action":"fail","Test":"TestExam"}
{"Action":"output","Test":"TestEscape","Output":"    escape_table.go:23: 5 tried, 2 got out\n"}
{"Action":"output","Test":"TestEscape","Output":"        x         a key ring                           held\n"}
{"Action":"output","Test":"TestEscape","Output":"        x         programs that are given privileges   ESCAPED\n"}
{"Action":"output","Test":"TestEscape","Output":"        x         a mount                              not tried: it is closed on this machine anyway\n"}
{"Action":"output","Test":"TestEscape","Output":"        x         fork bomb                            ended, nothing left\n"}
{"Action":"output","Test":"TestEscape","Output":"        x         daemon                               LEFT SOMETHING\n"}
{"Action":"fail","Test":"TestEscape"}
{"Action":"fail"}
`

func TestParse(t *testing.T) {
	t.Parallel()
	s := parse(said)
	t.Run("SBX-18 parts, ways out and what was left behind are counted", func(t *testing.T) {
		e, out := s.exam(), s.escape()
		if e == nil || e.Passed != 1 || e.Failed != 1 || e.Declared["sandbox mode x has no signals: it is deaf"] != 1 {
			t.Errorf("exam: got %+v", e)
		}
		if out == nil || out.Tried != 2 || out.Out != 1 || out.Closed != 1 || out.Bombs != 2 || out.Left != 1 {
			t.Errorf("escape: got %+v", out)
		}
		if len(s.failed) != 2 || !strings.Contains(s.failed[1], "TestExam/files: files.go:1: got 1, want 2") {
			t.Errorf("failed: got %q", s.failed)
		}
		if !strings.HasPrefix(s.rest, "go: downloading") {
			t.Errorf("rest: got %q", s.rest)
		}
	})
	t.Run("SBX-18 a run without tests counts none", func(t *testing.T) {
		if s := parse("no Go files\n"); s.exam() != nil || s.escape() != nil {
			t.Errorf("got %+v, %+v", s.exam(), s.escape())
		}
	})
	t.Run("SBX-18 what does not hold makes the whole broken", func(t *testing.T) {
		good := result{Escape: &escape{Tried: 3, Bombs: 2}, Costs: map[string]float64{"together-failed": 0}}
		if broken(good) {
			t.Error("a backend that holds is broken")
		}
		for _, bad := range []result{{Failed: []string{"x"}}, {Escape: &escape{Out: 1}}, {Escape: &escape{Left: 1}}, {Costs: map[string]float64{"together-failed": 1}}} {
			if !broken(bad) {
				t.Errorf("%+v is not broken", bad)
			}
		}
	})
}

func TestCosts(t *testing.T) {
	t.Parallel()
	got := costs("goos: linux\nBenchmarkCosts\nBenchmarkCosts-2   \t      20\t  12646056 ns/op\t         1.095 bare-ms\t       160.5 cold-ms\t         2 warm-times\t 0 together-failed\nPASS\n")
	t.Run("SBX-9 figures stand beside their aims", func(t *testing.T) {
		if len(got) != 4 || got["cold-ms"] != 160.5 || got["bare-ms"] != 1.095 {
			t.Fatalf("got %v", got)
		}
		b := backend{aims: []aim{{"cold-ms", "cold", 150, "150 ms"}, {"warm-times", "warm", 3, "3x"}, {"end-ms", "end", 1, "1 ms"}}}
		list := judge(b, got)
		if len(list) != 3 || list[0].Met || list[0].Saw != "160 ms" || !list[1].Met || list[1].Saw != "2x" || list[2].Met {
			t.Errorf("got %+v", list)
		}
	})
	t.Run("SBX-9 what was not run is no figure, and says why", func(t *testing.T) {
		skipped := "--- SKIP: BenchmarkCosts\n    exam.go:41: NOT TESTED: sandbox mode docker: no engine\nPASS\n"
		if costs(skipped) != nil || untested(skipped) != "sandbox mode docker: no engine" {
			t.Errorf("got %v, %q", costs(skipped), untested(skipped))
		}
	})
}

func TestDocument(t *testing.T) {
	t.Parallel()
	s := parse(said)
	page := document(whole{When: "today", Machine: "a machine", Turns: 5, Sandboxes: []result{
		{Mode: "docker", NotRun: "no engine|here"},
		{Mode: "e2b", Against: onDouble, Exam: &exam{Passed: 61}, Escape: &escape{Why: noIsolation}, Costs: map[string]float64{"cold-ms": 30, "bare-ms": 1, "cold-times": 30}},
		{Mode: "x", Exam: s.exam(), Escape: s.escape(), Failed: s.failed, Aims: []verdict{{"cold", "160 ms", "150 ms", false}}},
	}})
	t.Run("SBX-18 every backend has a line: what did not run, what is a double, what failed", func(t *testing.T) {
		for _, want := range []string{`| docker | not run: no engine\|here |`, "| e2b | double | 61 passed |", "**1 failed**, 1 declared", "**1 got out** (1 closed anyway)",
			"2, **1 left something**", "it is deaf (parts: 1)", "| x | cold | 160 ms | 150 ms | **no** |", "**x failed:** TestExam/files"} {
			if !strings.Contains(page, want) {
				t.Errorf("it does not say %q:\n%s", want, page)
			}
		}
	})
	t.Run("SBX-9 figures of a busy machine say so", func(t *testing.T) {
		quiet, full := whole{Sandboxes: []result{{Mode: "x", Load: "0.00"}}}, whole{Sandboxes: []result{{Mode: "x", Load: "99999"}}}
		if busy(quiet) || !busy(full) || !strings.Contains(document(full), "was busy") || strings.Contains(document(quiet), "was busy") {
			t.Errorf("got %t, %t", busy(quiet), busy(full))
		}
	})
	t.Run("SBX-9 a crowd of another size says so", func(t *testing.T) {
		for want, costs := range map[string]map[string]float64{"2 of 8": {"together": 8, "together-failed": 2}, "0": {"together": 64}, "1": {"together-failed": 1}} {
			if got := crowd(result{Costs: costs}); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
	t.Run("SBX-9 every mode that an agent can name is in the list", func(t *testing.T) {
		names := map[string]bool{}
		for _, b := range backends {
			names[b.mode] = true
		}
		for _, mode := range []string{"host", "landlock", "bwrap", "docker", "gvisor", "firecracker", "qemu", "wasm", "e2b", "kubernetes"} {
			if !names[mode] {
				t.Errorf("%s is missing", mode)
			}
		}
	})
}
