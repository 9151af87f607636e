package toolrunner

import (
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/wasm"
)

// wasm is the backend of WebAssembly programs. What it compiles is kept in the cache; where none is named, in the
// user's directory for such things. It starts nothing until it is asked to.
func (c Config) wasm() sandbox.Backend {
	cache := c.WASMCache
	if cache == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(dir, "inspan", "wasm")
		}
	}
	return wasm.New(wasm.Config{Dirs: c.WASMPrograms, Cache: cache})
}

// usesWASM reports whether the settings say something of WebAssembly programs.
func (c Config) usesWASM() bool {
	named := string(sandbox.WASM)
	return c.Sandbox == named || c.SandboxBackend == named || len(c.WASMPrograms) > 0
}
