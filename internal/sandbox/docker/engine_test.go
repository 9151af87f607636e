package docker_test

import (
	"os"
	"testing"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/sandbox/docker"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestMain lets the test program be the helper of the engine that is none.
func TestMain(m *testing.M) {
	if inside.Main() {
		os.Exit(inside.Failed)
	}
	if code, asked := within.Main(); asked {
		os.Exit(code)
	}
	m.Run()
}

// real is a backend of the engine that the variables name. Without an image nothing can be run, and the tests say so.
func real(testing.TB) *docker.Backend {
	cfg := docker.Config{Host: os.Getenv("INSPAN_TEST_DOCKER_HOST"), Image: os.Getenv("INSPAN_TEST_DOCKER_IMAGE"), Network: os.Getenv("INSPAN_TEST_DOCKER_NETWORK"),
		Helper: os.Getenv("INSPAN_TEST_DOCKER_HELPER")}
	if cfg.Image == "" {
		cfg.Image = "set-INSPAN_TEST_DOCKER_IMAGE"
	}
	if os.Getuid() == 0 {
		cfg.User = "0:0"
	}
	return docker.New(cfg)
}

func TestExam(t *testing.T) { sandboxtest.Exam(t, real(t)) }

func TestEscape(t *testing.T) { sandboxtest.Escape(t, real(t)) }

func TestSwap(t *testing.T) { sandboxtest.Swap(t, real(t)) }
