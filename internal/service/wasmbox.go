package service

import (
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/wasm"
)

// WASM is the backend of WebAssembly programs in the directories given. What it compiles is kept in cache; where that is
// empty, in the user's directory for such things. It starts nothing until it is asked to.
func WASM(programs []string, cache string) sandbox.Backend {
	if cache == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(dir, "inspan", "wasm")
		}
	}
	return wasm.New(wasm.Config{Dirs: programs, Cache: cache})
}
