package formula_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/pkg/events"
)

var rewrite = flag.Bool("rewrite", false, "write the plans of testdata anew")

func folder(files ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fsys
}

func load(t testing.TB, name string) *formula.Formula {
	t.Helper()
	m, err := formula.Load(os.DirFS("testdata/good"), name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The plans stand in testdata as they are sent: whoever changes what a formula means sees it in the diff.
func TestPlans(t *testing.T) {
	t.Parallel()
	values := map[string]map[string]string{
		"review": {"path": "internal/core"}, "feature": {"what": "a parser {{tries}}"}, "careful": {"what": "x", "tries": "5"},
		"tidy": nil, "release": {"version": "1.2.0"},
	}
	ids := map[string]string{"review": "FORM-1 FORM-4 FORM-6", "feature": "FORM-1 FORM-4", "careful": "FORM-7", "tidy": "FORM-2",
		"release": "FORM-8 FORM-10 FORM-12 FORM-13 FORM-14 FORM-15"}
	for name, vars := range values {
		t.Run(ids[name]+" "+name, func(t *testing.T) {
			t.Parallel()
			c, err := load(t, name).Compile(vars)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(c, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "plans", name+".json")
			if *rewrite {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got)+"\n" != string(want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	head := "formula = \"f\"\ndescription = \"d\"\n"
	step := "[[steps]]\nid = \"a\"\ntitle = \"A\"\n"
	tests := []struct{ what, text, want string }{
		{"FORM-1 PLAN-3 a cycle", head + "[[steps]]\nid = \"a\"\ntitle = \"A\"\nneeds = [\"b\"]\n[[steps]]\nid = \"b\"\ntitle = \"B\"\nneeds = [\"a\"]\n",
			`f.formula.toml:10:10: steps[1].needs[0]: steps need each other: a needs b needs a; remove one of these needs`},
		{"PLAN-3 a duplicate id", head + step + step, `f.formula.toml:6:3: steps[1]: the id "a" is used twice, also at steps[0]`},
		{"an unknown key", head + step + "titel = \"x\"\n", `f.formula.toml:6:1: steps[0].titel: unknown key "titel"; did you mean "title"?`},
		{"an unknown key at the top", head + "stepz = 1\n" + step, `f.formula.toml:3:1: stepz: unknown key "stepz"; did you mean "steps"?`},
		{"a key that no run can carry out", head + step + "bond = \"x\"\n", `f.formula.toml:6:1: steps[0].bond: bond is not supported; write`},
		{"a kind that no run can carry out", head + step + "kind = \"subflow\"\n", `f.formula.toml:6:8: steps[0].kind: a step of kind "subflow" is not supported`},
		{"FORM-4 a template that names nothing", head + "[[steps]]\nid = \"a\"\ntitle = \"do {{what}}\"\n",
			`f.formula.toml:5:13: steps[0].title: the template "{{what}}" names nothing that there is; add [vars.what]`},
		{"a template in a text of many lines", head + "[[steps]]\nid = \"a\"\ndescription = \"\"\"\none\n  two {{x y}}\"\"\"\n",
			`f.formula.toml:7:7: steps[0].description: the template at "{{x y}}" cannot be read`},
		{"an output of a step that is not there", head + "[[steps]]\nid = \"a\"\ntitle = \"use {{steps.b.output}}\"\n",
			`f.formula.toml:5:14: steps[0].title: there is no step "b"; there are: a`},
		{"a need that names nothing", head + step + "needs = [\"nothing\"]\n", `f.formula.toml:6:10: steps[0].needs[0]: there is no step "nothing"`},
		{"no steps", head, `f.formula.toml:1:1: steps: the formula has no steps; add [[steps]]`},
		{"a step that says nothing", head + "[[steps]]\nid = \"a\"\n", `f.formula.toml:3:3: steps[0]: the step "a" has no title and no description`},
		{"not TOML", head + "x = \n", `f.formula.toml:3:5: the file is not TOML`},
		{"a key twice", head + "formula = \"g\"\n", `f.formula.toml:3:1: the file is not TOML`},
		{"another name than the file's", "formula = \"g\"\n" + step, `f.formula.toml:1:1: the file f.formula.toml has the formula "g"; rename`},
		{"a template in a check", head + "[vars.x]\ndefault = \"1\"\n" + step + "accept = \"make {{x}}\"\n",
			`f.formula.toml:8:16: steps[0].accept: a template is not replaced in checks`},
		{"a check that is none", head + step + "accept = { checks = [{ kind = \"magic\" }] }\n", `f.formula.toml:6:10: steps[0].accept: accept.checks[0]`},
		{"a formula that extends itself", head + "extends = [\"f\"]\n" + step, `f.formula.toml:3:12: extends[0]: formulas that are made of each other: f -> f`},
		{"a formula that extends nothing", head + "extends = [\"g\"]\n" + step, `f.formula.toml:3:12: extends[0]: there is no formula "g"`},
		{"a path in place of a name", head + "extends = [\"../g\"]\n" + step, `f.formula.toml:3:12: extends[0]: "../g" is no name of a formula`},
		{"FORM-6 a convoy that leaves out a leg", head + "[[legs]]\nid = \"a\"\ntitle = \"A\"\n[[legs]]\nid = \"b\"\ntitle = \"B\"\n[synthesis]\ntitle = \"S\"\ndepends_on = [\"a\"]\n",
			`f.formula.toml:11:1: synthesis.depends_on: the leg "b" is left out`},
		{"a default of another type", head + "[vars.n]\ntype = \"integer\"\ndefault = \"many\"\n" + step, `f.formula.toml:5:11: vars.n.default: the default "many" is no integer`},
		{"a checklist with agents", head + "tracking = \"inline\"\n" + step + "agent = \"x\"\n", `f.formula.toml:4:3: steps[0].agent: a checklist has one agent`},
		{"control characters", "formula = \"\x1b[2J\"\n", `f.formula.toml:1:1: the file is not text`},
		{"too many values", head + "x-a = [" + strings.Repeat("1,", 60_000) + "]\n" + step, `the file has more than 50000 values`},
		{"too deep", head + "x-a = " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n" + step, `values are nested more than 32 levels deep`},
		{"too large", head + "x-a = '" + strings.Repeat("a", formula.MaxFile) + "'\n", `the file has more than 1048576 bytes`},
		{"a text that is too long", head + "[[steps]]\nid = \"a\"\ntitle = '" + strings.Repeat("a", formula.MaxText+1) + "'\n", `f.formula.toml:5:9: steps[0].title: the text has 8193 bytes, the limit is 8192`},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			refused(t, folder("f.formula.toml", tt.text), tt.want)
		})
	}
}

func refused(t *testing.T, fsys fstest.MapFS, want string) {
	t.Helper()
	_, err := formula.Load(fsys, "f")
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v\nwant %s", err, want)
	}
	found := formula.Faults(err)
	if len(found) == 0 || found[0].File == "" || found[0].Line == 0 && found[0].Code != formula.CodeLimit {
		t.Errorf("%+v", found)
	}
}

func TestRefusedWorkflows(t *testing.T) {
	t.Parallel()
	head := "id: f\nstates:\n  - name: a\n    agent: x\n    input: go\n"
	tests := []struct{ what, text, want string }{
		{"FORM-11 settings of a state are not ignored", head + "    harness: {max_steps: 100}\n", `f.workflow.yaml:6:5: states[0].harness: harness is not supported; set it in a file of an agent`},
		{"FORM-8 a type that is not supported", head + "  - name: b\n    type: tool\n    input: x\n", `f.workflow.yaml:7:11: states[1].type: a state of type tool is not supported; let an agent`},
		{"FORM-8 an unknown key", head + "    agnet: y\n", `f.workflow.yaml:6:5: states[0].agnet: unknown key "agnet"; did you mean "agent"?`},
		{"FORM-8 a next state that is not there", head + "    next: b\n", `f.workflow.yaml:6:11: states[0].next: there is no state "b" here`},
		{"FORM-8 a loop", head + "    next: a\n", `f.workflow.yaml:3:11: states[0].name: the state "a" comes again after itself`},
		{"FORM-8 a state that is never reached", head + "    end: true\n  - {name: b, input: x}\n", `f.workflow.yaml:7:12: states[1].name: the state "b" is never reached`},
		{"FORM-13 an input that is not there", "id: f\nstates:\n  - name: a\n    input: see ${input.issue}\n", `f.workflow.yaml:4:16: states[0].input: the template "${input.issue}" names nothing`},
		{"FORM-12 a value that no state gives", "id: f\nstates:\n  - name: a\n    input: see {{ctx.plan}}\n", `f.workflow.yaml:4:16: states[0].input: no state gives "{{ctx.plan}}"`},
		{"FORM-12 a value of a later state", "id: f\nstates:\n  - {name: a, input: \"see {{ctx.p}}\"}\n  - {name: b, input: x, resultPath: p}\n", `steps need each other: a needs b needs a`},
		{"FORM-13 a template that cannot be read", "id: f\nstates:\n  - name: a\n    input: see ${HOME}\n", `f.workflow.yaml:4:16: states[0].input: the template "${HOME}" names nothing`},
		{"FORM-10 no branches", "id: f\nstates:\n  - name: a\n    type: parallel\n", `f.workflow.yaml:3:5: states[0].branches: the state "a" has no branches`},
		{"FORM-8 no input", "id: f\nstates:\n  - name: a\n", `f.workflow.yaml:3:5: states[0].input: the state has no input`},
		{"an anchor", "id: &x f\n", `f.workflow.yaml:1:5: anchors, aliases, tags and merge keys are not accepted`},
		{"two documents", "id: f\n---\nid: g\n", `the file has 2 YAML documents, want one`},
		{"a key twice", "id: f\nid: g\n", `f.workflow.yaml:2:1: `},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			refused(t, folder("f.workflow.yaml", tt.text), tt.want)
		})
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	text := "formula = \"f\"\ndescription = \"{{a}} {{n}} {{on}}\"\n[vars.a]\nrequired_unless = [\"b\"]\nrequired = true\n[vars.n]\ntype = \"integer\"\ndefault = 1\n[vars.on]\ntype = \"boolean\"\ndefault = true\n[vars.e]\nenum = [\"x\", \"y\"]\n[vars.b]\n[[steps]]\nid = \"s\"\ntitle = \"t\"\n"
	m, err := formula.Load(folder("f.formula.toml", text), "f")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		what string
		vars map[string]string
		want string
	}{
		{"FORM-4 a required one without a value", nil, `f.formula.toml:3:7: vars.a: the variable a is required and has no value; give it with --var a=VALUE`},
		{"FORM-4 one that is used and has no value", map[string]string{"b": "1"}, `f.formula.toml:2:16: description: the variable "{{a}}" has no value; give it with --var a=VALUE`},
		{"FORM-4 an unknown one", map[string]string{"a": "1", "aa": "2"}, `f.formula.toml:1:1: there is no variable "aa"; did you mean "a"?`},
		{"FORM-4 one of another type", map[string]string{"a": "1", "n": "x"}, `vars.n: the value "x" is no integer`},
		{"FORM-4 one that is not among those that it may be", map[string]string{"a": "1", "e": "z"}, `vars.e: the value "z" is none of x, y`},
		{"FORM-4 10 MB", map[string]string{"a": strings.Repeat("a", 10<<20)}, `the values of the variables have 10485766 bytes, the limit is 65536`},
		{"FORM-4 all of them", map[string]string{"a": "{{n}}", "on": "false"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			c, err := m.Compile(tt.vars)
			switch {
			case tt.want == "" && (err != nil || c.Task != "{{n}} 1 false"):
				t.Errorf("%v %+v", err, c)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	t.Run("FORM-5 a sequence runs its steps one after another", func(t *testing.T) {
		t.Parallel()
		m, err := formula.Load(folder("f.formula.toml", "formula = \"f\"\norder = \"sequential\"\n"+many(5, false)), "f")
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range m.Steps() {
			if s.Wave != i+1 || len(s.Needs) != min(i, 1) {
				t.Errorf("%+v", s)
			}
		}
	})
	t.Run("FORM-1 limits hold, and one more is refused", func(t *testing.T) {
		t.Parallel()
		head := "formula = \"f\"\n"
		if _, err := formula.Load(folder("f.formula.toml", head+many(formula.MaxSteps, true)), "f"); err != nil {
			t.Error(err)
		}
		_, err := formula.Load(folder("f.formula.toml", head+many(formula.MaxSteps+1, true)), "f")
		if err == nil || !strings.Contains(err.Error(), "the list has 1001 items, the limit is 1000") {
			t.Error(err)
		}
	})
	t.Run("FORM-7 two formulas for one name are refused", func(t *testing.T) {
		t.Parallel()
		_, err := formula.Load(folder("f.formula.toml", "", "f.workflow.yaml", ""), "f")
		if err == nil || !strings.Contains(err.Error(), "there are two files of \"f\"") {
			t.Error(err)
		}
	})
	t.Run("FORM-7 an overlay that was made for another file is refused", func(t *testing.T) {
		t.Parallel()
		text := "formula = \"f\"\n" + many(1, false)
		m, err := formula.Load(folder("f.formula.toml", text), "f")
		if err != nil {
			t.Fatal(err)
		}
		over := "\n[[step-overrides]]\nstep_id = \"s0\"\ndescription = \"other\"\n"
		good := folder("f.formula.toml", text, "f.overlay.toml", "expect_digest = \"sha256:"+m.Files[0].Digest+"\""+over)
		if _, err := formula.Load(good, "f"); err != nil {
			t.Error(err)
		}
		_, err = formula.Load(folder("f.formula.toml", text+"# changed\n", "f.overlay.toml", "expect_digest = \""+m.Files[0].Digest+"\""+over), "f")
		if found := formula.Faults(err); len(found) != 1 || found[0].Code != formula.CodeDigest || found[0].Line != 1 || found[0].Column != 17 {
			t.Error(err)
		}
	})
	t.Run("FORM-7 an aspect whose pointcut matches nothing is refused", func(t *testing.T) {
		t.Parallel()
		_, err := formula.Load(folder("f.formula.toml", "formula = \"f\"\n[compose]\naspects = [\"a\"]\n"+many(1, false),
			"a.formula.toml", "formula = \"a\"\ntype = \"aspect\"\n[[pointcuts]]\nglob = \"x*\"\n[[advice]]\n"), "f")
		if err == nil || !strings.Contains(err.Error(), `a.formula.toml:4:8: pointcuts[0].glob: no step of f matches "x*"`) {
			t.Error(err)
		}
	})
	t.Run("FORM-7 includes without end are refused", func(t *testing.T) {
		t.Parallel()
		fsys := fstest.MapFS{}
		for i := range 40 {
			text := fmt.Sprintf("formula = \"f%d\"\nextends = [\"f%d\"]\n", i, i+1)
			fsys[fmt.Sprintf("f%d.formula.toml", i)] = &fstest.MapFile{Data: []byte(text)}
		}
		_, err := formula.Load(fsys, "f0")
		if err == nil || !strings.Contains(err.Error(), "formulas extend each other more than 8 deep") {
			t.Error(err)
		}
	})
	t.Run("FORM-6 FORM-7 what an extension adds behind the synthesis of a convoy is no leg of it", func(t *testing.T) {
		t.Parallel()
		m, err := formula.Load(folder("f.formula.toml", "formula = \"f\"\nextends = [\"c\"]\n"+
			"[[steps]]\nid = \"announce\"\ntitle = \"Announce\"\nneeds = [\"synthesis\"]\n"+
			"[[steps]]\nid = \"thank\"\ntitle = \"Thank, because of {{steps.announce.output}}\"\n"+
			"[[steps]]\nid = \"more\"\ntitle = \"Look at more\"\n",
			"c.formula.toml", "formula = \"c\"\n[[legs]]\nid = \"a\"\ntitle = \"A\"\n[synthesis]\ntitle = \"S\"\n"), "f")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range m.Steps() {
			if s.ID == "synthesis" && (s.Wave != 2 || !slices.Equal(s.Needs, []string{"a", "more"})) || s.ID == "thank" && s.Wave != 4 {
				t.Errorf("%+v", s)
			}
		}
	})
	t.Run("FORM-7 the same files give the same plan and digest", func(t *testing.T) {
		t.Parallel()
		one, err := load(t, "careful").Compile(map[string]string{"what": "x"})
		two, err2 := load(t, "careful").Compile(map[string]string{"what": "x"})
		if errors.Join(err, err2) != nil || !reflect.DeepEqual(one, two) {
			t.Errorf("%v %v\n%+v\n%+v", err, err2, one, two)
		}
	})
}

// many is a formula of n steps, each of which needs the one before it where linked is true.
func many(n int, linked bool) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "[[steps]]\nid = \"s%d\"\ntitle = \"Do %d\"\n", i, i)
		if linked && i > 0 {
			fmt.Fprintf(&b, "needs = [\"s%d\"]\n", i-1)
		}
	}
	return b.String()
}

// Whatever the bytes are, the answer is a formula that compiles or a refusal with a place, and never a panic.
func FuzzLoad(f *testing.F) {
	for _, dir := range []string{"testdata/good"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range files {
			text, err := os.ReadFile(filepath.Join(dir, x.Name()))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text), strings.HasSuffix(x.Name(), ".yaml"))
		}
	}
	f.Fuzz(func(t *testing.T, text string, yaml bool) {
		name := "f.formula.toml"
		if yaml {
			name = "f.workflow.yaml"
		}
		m, err := formula.Load(folder(name, text), "f")
		if err != nil {
			if len(formula.Faults(err)) == 0 {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		c, err := m.Compile(nil)
		if err != nil || c.Plan == nil {
			return
		}
		ids := map[string]bool{}
		for _, s := range c.Plan.PlanSteps("a") {
			for _, need := range s.Dependencies {
				if !ids[need] {
					t.Fatalf("step %s needs %s, which does not stand before it", s.ID, need)
				}
			}
			if ids[s.ID] || !events.ValidID(s.ID) || strings.TrimSpace(s.Description) == "" {
				t.Fatalf("%+v", s)
			}
			ids[s.ID] = true
		}
	})
}

func BenchmarkCompile1000(b *testing.B) {
	fsys := folder("f.formula.toml", "formula = \"f\"\n[vars.x]\ndefault = \"1\"\n"+strings.ReplaceAll(many(formula.MaxSteps, true), "Do", "Do {{x}}"))
	b.ReportAllocs()
	for b.Loop() {
		m, err := formula.Load(fsys, "f")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Compile(nil); err != nil {
			b.Fatal(err)
		}
	}
}
