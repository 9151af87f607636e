package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom writes which modules a program was built of, as the program itself says.
func (r *release) sbom(t target, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	if got := info.Main.Version; got != "v"+r.version {
		return fmt.Errorf("%s says that it is of version %s, not v%s", program, got, r.version)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.src.date.Format("2006-01-02T15:04:05Z"),
		Component: module(cdx.ComponentTypeApplication, info.Main.Path, info.Main.Version)}
	parts := []cdx.Component{*module(cdx.ComponentTypeLibrary, "std", info.GoVersion[len("go"):])}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, *module(cdx.ComponentTypeLibrary, m.Path, m.Version))
	}
	bom.Components = &parts
	f, err := os.Create(filepath.Join(r.out, r.name(t, ".sbom.json")))
	if err != nil {
		return err
	}
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func module(kind cdx.ComponentType, path, version string) *cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return &cdx.Component{Type: kind, Name: path, Version: version, PackageURL: purl, BOMRef: purl}
}
