// Package docs holds what programs serve of the documents. It has no code.
package docs

import "embed"

// OpenAPI is the OpenAPI 3.1 document of the gateway.
//
//go:embed openapi.json
var OpenAPI []byte

// Pages are the pages for people, in Markdown, index.md first. The reference of events is not among them: it is half of
// all.
//
//go:embed [a-df-z]*.md egress.md entrypoints.md tutorials/*.md
var Pages embed.FS
