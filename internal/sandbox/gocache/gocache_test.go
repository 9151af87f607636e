package gocache

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// talk asks a cache, and gives its answers after the first.
func talk(t *testing.T, shared, own string, requests ...string) []answer {
	t.Helper()
	var out bytes.Buffer
	if err := Serve(shared, own, strings.NewReader(strings.Join(requests, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	var all []answer
	for d := json.NewDecoder(&out); d.More(); {
		var a answer
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all[1:]
}

func TestServe(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString
	body := []byte("compiled")
	sum := sha256.Sum256(body)
	action := sha256.Sum256([]byte("action"))
	put := fmt.Sprintf("{\"ID\":1,\"Command\":\"put\",\"ActionID\":%q,\"OutputID\":%q,\"BodySize\":%d}\n%q", b64(action[:]), b64(sum[:]), len(body), b64(body))
	get := fmt.Sprintf("{\"ID\":2,\"Command\":\"get\",\"ActionID\":%q}", b64(action[:]))
	t.Run("what is put is in the own layer, and found there and in a shared one", func(t *testing.T) {
		t.Parallel()
		one, two := t.TempDir(), t.TempDir()
		a := talk(t, two, one, put, get)
		if len(a) != 2 || a[1].Miss || a[1].Size != int64(len(body)) || !strings.HasPrefix(a[1].DiskPath, one) {
			t.Errorf("%+v", a)
		}
		if left, err := os.ReadDir(two); err != nil || len(left) > 0 {
			t.Errorf("the shared layer has %v %v", left, err)
		}
		if a := talk(t, one, two, get); a[0].Miss || !strings.HasPrefix(a[0].DiskPath, one) {
			t.Errorf("%+v", a)
		}
	})
	t.Run("what was changed in the shared layer is a miss", func(t *testing.T) {
		t.Parallel()
		one, two := t.TempDir(), t.TempDir()
		a := talk(t, two, one, put)
		if err := os.WriteFile(a[0].DiskPath, []byte("c0mpiled"), 0o644); err != nil {
			t.Fatal(err)
		}
		if a := talk(t, one, two, get); !a[0].Miss {
			t.Errorf("%+v", a)
		}
	})
	t.Run("malformed requests end it, and nothing is written elsewhere", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{`{"ID":1,"Command":"get"}`, `{"ID":1,"Command":"put","ActionID":"AA==","BodySize":-1}`, `{"ID":1,"Command":"put","ActionID":"AA==","OutputID":"AA==","BodySize":99999999999}`, `{`} {
			own := t.TempDir()
			if err := Serve(t.TempDir(), own, strings.NewReader(bad), &bytes.Buffer{}); err == nil {
				t.Errorf("%s: got no error", bad)
			}
			if left, _ := filepath.Glob(own + "/*"); len(left) > 0 {
				t.Errorf("%s: %v", bad, left)
			}
		}
	})
}
