package gateway

import "github.com/inspan/inspan/services/gateway/tokens"

// Operation is what the OpenAPI document says of a row of the table.
type Operation struct {
	Method, Path, Summary string
	// Scope that the token needs, empty for any; Open needs no token.
	Scope  tokens.Scope
	Open   bool
	Params []Param
	// Body is a zero value of what the body holds, nil for none. Answers are such values by status; a string is the media
	// type of what is not JSON.
	Body    any
	Answers map[int]any
}

// Param is one that is not a part of the path: In is query or header.
type Param struct{ Name, In, About string }

// Operations are all that the gateway answers. cmd/docgen makes the OpenAPI document of them and not the gateway
// itself, so that what makes schemas of Go types is not in the program.
func Operations() []Operation {
	var all []Operation
	for _, r := range routes() {
		o := Operation{Method: r.method, Path: r.path, Summary: r.summary, Scope: r.scope, Open: r.open, Body: r.body,
			Answers: r.answers}
		for _, p := range r.params {
			o.Params = append(o.Params, Param{p.name, p.in, p.about})
		}
		all = append(all, o)
	}
	return all
}
