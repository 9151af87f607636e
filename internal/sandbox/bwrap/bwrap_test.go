package bwrap_test

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestMain lets the test program be its own launcher.
func TestMain(m *testing.M) {
	if launch.Asked(os.Args) {
		launch.Main() // which becomes the command
		return
	}
	m.Run()
}

func TestExam(t *testing.T) { sandboxtest.Exam(t, bwrap.New("", "")) }

func TestEscape(t *testing.T) { sandboxtest.Escape(t, bwrap.New("", "").Helped()) }

func TestSwap(t *testing.T) { sandboxtest.Swap(t, bwrap.New("", "")) }

// asked is bubblewrap whose commands ask the service where to connect to.
type asked struct{ *bwrap.Backend }

func (a asked) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	cfg.Closed = func(netip.AddrPort) bool { return false }
	return a.Backend.Open(ctx, cfg)
}

// TestExamAsked is the exam of sandboxes with an open network whose connections the service makes.
func TestExamAsked(t *testing.T) { sandboxtest.Exam(t, asked{bwrap.New("", "").Helped()}) }

func BenchmarkAsked(b *testing.B) { sandboxtest.Costs(b, asked{bwrap.New("", "").Helped()}) }

func BenchmarkCosts(b *testing.B) { sandboxtest.Costs(b, bwrap.New("", "")) }
