package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/secret"
)

const hidden = "sk-very-hidden"

func TestNoPrinterShowsASecret(t *testing.T) {
	t.Parallel()
	v := secret.New(hidden)
	inside := struct {
		Open   secret.Value
		closed secret.Value
		many   []secret.Value
		by     map[string]secret.Value
	}{v, v, []secret.Value{v}, map[string]secret.Value{"k": v}}

	var printed bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%20s"} {
		fmt.Fprintf(&printed, verb+verb+verb+"\n", v, &v, inside)
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		b, err := marshal(inside)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, []byte("***")) {
			t.Errorf("got %s, want the mask", b)
		}
		printed.Write(b)
	}
	slog.New(slog.NewTextHandler(&printed, nil)).Info("slog", "v", v, "inside", inside)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("slog", "v", v, "inside", inside)
	log := zerolog.New(&printed)
	log.Info().Interface("v", v).Stringer("s", v).Any("inside", inside).Msg("zerolog")
	fmt.Fprintln(&printed, fmt.Errorf("with %v and %w", v, fmt.Errorf("%+v", inside)))

	hex := fmt.Sprintf("%x", hidden)
	for _, form := range []string{hidden, hex, strings.ToUpper(hex)} {
		if strings.Contains(printed.String(), form) {
			t.Errorf("the secret was printed: %s", printed.String())
		}
	}
	if v.Reveal() != hidden {
		t.Errorf("got %q from Reveal", v.Reveal())
	}
}

func TestReading(t *testing.T) {
	t.Parallel()
	var v secret.Value
	if !v.Empty() || v.Reveal() != "" || fmt.Sprint(v) != "" {
		t.Errorf("got %v, want an empty value that prints as nothing", v)
	}
	if err := v.UnmarshalText([]byte(" " + hidden + "\n")); err != nil || v.Reveal() != hidden || v.Empty() {
		t.Errorf("got %q, %v", v.Reveal(), err)
	}
	if err := v.UnmarshalText([]byte(" \n")); err != nil || !v.Empty() {
		t.Errorf("got %q, %v, want empty", v.Reveal(), err)
	}
}
