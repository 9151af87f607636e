package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// aRule draws one rule as YAML.
func aRule(t *rapid.T, id string) string {
	match := rapid.SampledFrom([]string{`glob: "make *"`, `argv: ["git", "**", "tag", "**"]`, `flags_any: ["--now"]`, `path_outside: workspace`}).Draw(t, "match")
	return fmt.Sprintf("  - {id: %s, tool: %q, match: {%s}, action: %s, reason: %q, locked: %t}\n", id, rapid.SampledFrom([]string{"bash", "*", "{read,write}"}).Draw(t, "tool"),
		match, rapid.SampledFrom([]string{"allow", "ask", "deny"}).Draw(t, "action"), rapid.StringMatching(`[a-zü ]{0,12}`).Draw(t, "reason"), rapid.Bool().Draw(t, "locked"))
}

func rules(t *rapid.T, layer string) string {
	var b strings.Builder
	for i := range rapid.IntRange(1, 4).Draw(t, layer) {
		b.WriteString(aRule(t, fmt.Sprintf("%s-%d", layer, i)))
	}
	return b.String()
}

const aHook = "hooks:\n  - {id: h, on: pre_tool, subject: %s, timeout: %dms}\n"

// sources draws the files of a station: a policy and some agents.
func sources(t *rapid.T) map[string]string {
	hook := func() string {
		return fmt.Sprintf(aHook, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "subject"), rapid.IntRange(1, 9).Draw(t, "ms"))
	}
	files := map[string]string{"policy.yaml": "version: 1\nrules:\n" + rules(t, "station") + hook()}
	for i := range rapid.IntRange(1, 3).Draw(t, "agents") {
		name := fmt.Sprintf("agent%d", i)
		files["agents/"+name+".prompt"] = "---\nmodel: scripted/x\ntools: [bash, read]\npermissions: {bash: {\"make *\": ask}}\nguards:\n" + rules(t, "own") + hook() + "---\nDo it.\n"
	}
	return files
}

// installed is what the services go by, byte for byte: the definitions in the station's store, and the rules in force
// for each agent that is in it.
func installed(t *rapid.T, kv kernel.KV, policy agentfile.Policy) map[string]string {
	ctx, all := context.Background(), map[string]string{}
	keys, err := kv.Keys(ctx, "agent.")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		b, err := kv.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = string(b)
		var a events.Agent
		if json.Unmarshal(b, &a) != nil {
			continue
		}
		if set, err := guard.Build(policy.Rules, a.Guards); err == nil {
			b, err := set.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			all["rules."+key], all["digest."+key] = string(b), set.Digest()
		}
	}
	return all
}

// tamper does something to one definition in the store.
func tamper(t *rapid.T, kv kernel.KV) {
	ctx := context.Background()
	keys, err := kv.Keys(ctx, "agent.")
	if err != nil || len(keys) == 0 {
		return
	}
	key := rapid.SampledFrom(slices.Sorted(slices.Values(keys))).Draw(t, "key")
	b, err := kv.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	b = slices.Clone(b)
	var a events.Agent
	whole := json.Unmarshal(b, &a) == nil
	switch kind := rapid.IntRange(0, 4).Draw(t, "tampering"); {
	case kind == 0:
		err = kv.Delete(ctx, key)
	case kind == 1 && len(b) > 0:
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		err = kv.Put(ctx, key, b)
	case kind == 2:
		err = kv.Put(ctx, key, b[:rapid.IntRange(0, len(b)).Draw(t, "cut")])
	case kind == 3 && whole: // as one who knows what it is would: the digest stays
		a.Guards, a.Hooks, a.Tools = nil, nil, append(a.Tools, "write")
		if b, err = json.Marshal(a); err == nil {
			err = kv.Put(ctx, key, b)
		}
	default:
		err = kv.Put(ctx, key, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPROP29(t *testing.T) {
	t.Parallel()
	t.Run("PROP-29 GUARD-11 configuration rebuilt from its sources is the installed one byte for byte, after any tampering", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		n := 0
		rapid.Check(t, func(t *rapid.T) {
			n++
			dir := filepath.Join(root, fmt.Sprint(n))
			for name, text := range sources(t) {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			st, err := mem.New("s", mem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			kv := st.KV("config")
			install := func() (agentfile.Policy, map[string]string) {
				policy, _, err := agentfile.LoadPolicy(filepath.Join(dir, "policy.yaml"))
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := (&service.Agents{KV: kv}).Register(context.Background(), filepath.Join(dir, "agents")); err != nil {
					t.Fatal(err)
				}
				return policy, installed(t, kv, policy)
			}
			policy, want := install()
			if len(want) < 3 || len(want)%3 != 0 {
				t.Fatalf("%d entries are installed: %v", len(want), want)
			}
			for range rapid.IntRange(0, 4).Draw(t, "times") {
				tamper(t, kv)
			}
			if damaged := installed(t, kv, policy); !maps.Equal(damaged, want) {
				for key, digest := range want { // rules that are not those of the sources have another digest
					if strings.HasPrefix(key, "digest.") && damaged[key] == digest && damaged["rules."+key[7:]] != want["rules."+key[7:]] {
						t.Fatalf("%s is the same for other rules", key)
					}
				}
			}
			if _, got := install(); !maps.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		})
	})
}
