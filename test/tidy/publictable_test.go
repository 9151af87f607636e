package tidy

import (
	"fmt"
	"go/types"
	"strings"
)

// Public are the packages that programs of others import.
var Public = []string{"pkg/client", "pkg/harness", "pkg/events", "pkg/events/ce", "pkg/run", "pkg/approval", "pkg/tool", "pkg/tool/sandbox", "pkg/tool/serve", "pkg/tool/wire", "pkg/tool/tooltest", "pkg/station"}

// Internal lists the exported identifiers of a package whose type comes from a folder that others cannot import.
// Unexported types of the package itself end the search: no one outside can name or make them.
func Internal(pkg *types.Package) []string {
	s := &search{pkg: pkg, seen: map[types.Type]bool{}}
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			s.object(name, o)
		}
	}
	return s.found
}

type search struct {
	pkg   *types.Package
	seen  map[types.Type]bool
	found []string
}

func (s *search) object(at string, o types.Object) {
	if n, ok := o.Type().(*types.Named); ok && n.Obj() == o {
		s.members(at, n)
		return
	}
	s.typ(at, o.Type())
}

// members are what others reach of a named type of the package.
func (s *search) members(at string, n *types.Named) {
	if s.seen[n] {
		return
	}
	s.seen[n] = true
	s.typ(at, n.Underlying())
	for i := range n.NumMethods() {
		if m := n.Method(i); m.Exported() {
			s.typ(at+"."+m.Name(), m.Type())
		}
	}
}

func (s *search) typ(at string, t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		s.typ(at, types.Unalias(t))
	case *types.Named:
		o := t.Obj()
		switch {
		case o.Pkg() == nil:
		case strings.Contains(o.Pkg().Path()+"/", "/internal/") && strings.HasPrefix(o.Pkg().Path(), Module+"/"):
			s.found = append(s.found, fmt.Sprintf("%s has type %s", at, o.Pkg().Path()+"."+o.Name()))
		case o.Pkg() == s.pkg && o.Exported():
			s.members(o.Name(), t)
		}
		for i := range t.TypeArgs().Len() {
			s.typ(at, t.TypeArgs().At(i))
		}
	case *types.Pointer:
		s.typ(at, t.Elem())
	case *types.Slice:
		s.typ(at, t.Elem())
	case *types.Array:
		s.typ(at, t.Elem())
	case *types.Chan:
		s.typ(at, t.Elem())
	case *types.Map:
		s.typ(at, t.Key())
		s.typ(at, t.Elem())
	case *types.Tuple:
		for i := range t.Len() {
			s.typ(at, t.At(i).Type())
		}
	case *types.Signature:
		s.typ(at, t.Params())
		s.typ(at, t.Results())
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); f.Exported() {
				s.typ(at+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for i := range t.NumMethods() {
			if m := t.Method(i); m.Exported() {
				s.typ(at+"."+m.Name(), m.Type())
			}
		}
	}
}
