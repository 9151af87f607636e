package main

import (
	"slices"
	"strings"
	"testing"
)

func TestNamed(t *testing.T) {
	t.Parallel()
	for test, want := range map[string][]string{
		"TestGate/GATE-10_a_gate":                             {"GATE-10"},
		"TestGate/GATE-1_GATE-2_PROP-10_gates":                {"GATE-1", "GATE-2", "PROP-10"},
		"TestGate/GATE-1_first/GATE-1_again":                  {"GATE-1"},
		"TestGate/GATE-1#01":                                  {"GATE-1"},
		"TestGate/an_id_at_the_end,_GATE-1":                   {"GATE-1"},
		"TestGate/XGATE-1x,_GATE-1b,_A-GATE-1,_GATE-1-2":      nil,
		"TestGate/nothing":                                    nil,
		"TestFold/EVT-4_PROP-4:_written_(EVT-3)_and_gate-1 ü": {"EVT-4", "PROP-4", "EVT-3"},
	} {
		if got := Named(test); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", test, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse("# why\n\nLIFE-1..3,7\nWORK-1\n")
	if want := []string{"LIFE-1", "LIFE-2", "LIFE-3", "LIFE-7", "WORK-1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"LIFE", "LIFE-", "LIFE-x", "LIFE-3..1", "LIFE-0", "LIFE-1,1", "LIFE-1..9999"} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
	}
	all, err := Parse(ids)
	if err != nil || len(all) < 150 {
		t.Errorf("ids.txt: got %d requirements, %v", len(all), err)
	}
}

const stream = `go: downloading something
{"Action":"pass","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-10_ten"}
{"Action":"pass","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-2_two"}
{"Action":"fail","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-2_GATE-3_two_three"}
{"Action":"skip","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-4_four"}
{"Action":"run","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-5_five"}
{"Action":"fail","Package":"github.com/inspan/inspan/pkg/a"}
`

func TestPrint(t *testing.T) {
	t.Parallel()
	wanted := []string{"GATE-1", "GATE-2", "GATE-3", "GATE-4", "GATE-5", "GATE-10"}
	t.Run("skipped, unfinished, failed and unnamed prove nothing", func(t *testing.T) {
		t.Parallel()
		res, err := Read(strings.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		ok := Print(&out, wanted, res)
		want := `GATE-1    MISSING
GATE-2    FAILED   pkg/a.TestA/GATE-2_GATE-3_two_three
GATE-3    FAILED   pkg/a.TestA/GATE-2_GATE-3_two_three
GATE-4    MISSING
GATE-5    MISSING
GATE-10         1  pkg/a.TestA/GATE-10_ten
1 of 6 requirements proven, 2 failed, 3 missing; 2 tests passed
`
		if ok || out.String() != want {
			t.Errorf("got %v\n%s\nwant false\n%s", ok, out.String(), want)
		}
	})
	t.Run("all proven", func(t *testing.T) {
		t.Parallel()
		res, err := Read(strings.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		if !Print(&strings.Builder{}, []string{"GATE-10"}, res) {
			t.Error("got false, want true")
		}
	})
	t.Run("a package that does not build is not proven", func(t *testing.T) {
		t.Parallel()
		res, err := Read(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestA/GATE-1_one"}` + "\n" +
			`{"Action":"fail","Package":"q","FailedBuild":"q"}`))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if Print(&out, []string{"GATE-1"}, res) || !strings.Contains(out.String(), "BROKEN   q") {
			t.Errorf("got proven, or no word about q:\n%s", out.String())
		}
	})
	t.Run("a stream without tests is an error", func(t *testing.T) {
		t.Parallel()
		if _, err := Read(strings.NewReader("nothing\n")); err == nil {
			t.Error("got no error")
		}
	})
}
