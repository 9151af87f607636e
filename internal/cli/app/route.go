package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Route says at which station a project is: its commands use the context, unless a flag or a variable says otherwise.
type Route struct {
	Project string `json:"project"`
	// Station is the one that the context reached when the route was set; another one there is an error.
	Station string `json:"station"`
	Context string `json:"context"`
	// Dirs are the directories of the project on this machine, absolute and without symbolic links.
	Dirs []string `json:"dirs,omitempty"`
}

// maxRoutes bounds the file of the routes, in bytes.
const maxRoutes = 1 << 20

// errRoutes is what is wrong with the file of the routes.
var errRoutes = errors.New("want what inspan stations route writes")

// Layer is what a route is called where settings are explained.
func (r Route) Layer() string { return "route of project " + r.Project }

// check compares the route with the context that it names.
func (r Route) check(c Context) error {
	if is := StationOf(c); is != r.Station {
		return Usage("project %s is routed to station %s by context %s, which names station %s now: set the route again with inspan stations route %s STATION --force, or correct the context",
			r.Project, r.Station, r.Context, is, r.Project)
	}
	return nil
}

// StationOf is the station that a context names.
func StationOf(c Context) string { return cmp.Or(c.Station, client.DefaultStation) }

// routesFile is the file of the routes, which is next to the folder of the contexts; "" without a home.
func routesFile() string {
	at := service.SystemFile()
	if at == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(at), "routes.json")
}

// PersonalDir is the folder of what belongs to this person, "" without a home.
func PersonalDir() string {
	at := service.SystemFile()
	if at == "" {
		return ""
	}
	return filepath.Dir(at)
}

// Routes returns the routes of this person by project.
func Routes() ([]Route, error) {
	at := routesFile()
	if at == "" {
		return nil, nil
	}
	info, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxRoutes) {
		err = errRoutes
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(at)
	}
	var file struct {
		Routes []Route `json:"routes"`
	}
	if err == nil && json.Unmarshal(b, &file) != nil {
		err = errRoutes
	}
	if err == nil {
		err = checkRoutes(file.Routes)
	}
	if err != nil {
		return nil, Usage("routes of projects: %s: %w", at, err)
	}
	return file.Routes, nil
}

// checkRoutes checks what a person may have changed by hand.
func checkRoutes(all []Route) error {
	seen := map[string]bool{}
	for _, r := range all {
		if !events.ValidID(r.Project) || !events.ValidID(r.Station) || r.Context == "" || seen[r.Project] {
			return fmt.Errorf("the route of project %q: %w", r.Project, errRoutes)
		}
		seen[r.Project] = true
	}
	return nil
}

// SaveRoutes writes all routes.
func SaveRoutes(all []Route) error {
	at := routesFile()
	if at == "" {
		return errNoHome
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Project < all[j].Project })
	b, err := json.MarshalIndent(map[string]any{"routes": OrEmpty(all)}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	return disk.Replace(at, append(b, '\n'), 0o600)
}

// ProjectDir is a directory as routes have it.
func ProjectDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// FindRoute finds the route of the project that the command is for: the one that --project names, else the one whose
// directory is the working directory or the nearest one above it. Whoever says which station is meant by a flag or a
// variable means that one.
func FindRoute(a *App) error {
	a.Routed = Route{}
	if a.Local || a.Given("station") || a.Given("server") || a.Given("context") || a.inEnvironment("INSPAN_STATION") ||
		a.inEnvironment("INSPAN_NATS_URL") || os.Getenv(contextVariable) != "" {
		return nil
	}
	all, err := Routes()
	if err != nil || len(all) == 0 {
		return err
	}
	if a.Given("project") {
		if f := a.Cmd.Flags().Lookup("project"); f.Value.Type() == "string" {
			if i := slices.IndexFunc(all, func(r Route) bool { return r.Project == f.Value.String() }); i >= 0 {
				a.Routed = all[i]
			}
			return nil
		}
	}
	wd, err := ProjectDir(".")
	if err != nil {
		return nil //nolint:nilerr // a working directory that is gone is in no project
	}
	longest := 0
	for _, r := range all {
		for _, dir := range r.Dirs {
			if within(wd, dir) && len(dir) > longest {
				a.Routed, longest = r, len(dir)
			}
		}
	}
	return nil
}

// within reports whether a directory is another one or below it.
func within(dir, above string) bool {
	rel, err := filepath.Rel(above, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
