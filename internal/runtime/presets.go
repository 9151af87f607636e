package runtime

import (
	"embed"
	"path"
)

//go:embed presets/*.toml
var presets embed.FS

// Presets are the entries that this program brings along, by name.
func Presets() map[string]Entry {
	files, err := presets.ReadDir("presets")
	if err != nil {
		panic(err) // they are part of the program
	}
	all := map[string]Entry{}
	for _, f := range files {
		data, err := presets.ReadFile(path.Join("presets", f.Name()))
		if err != nil {
			panic(err) // as above
		}
		e, err := Parse(f.Name(), data)
		if err != nil {
			panic(err) // TestPresets reads them all
		}
		e.Preset = true
		all[e.Name] = e
	}
	return all
}
