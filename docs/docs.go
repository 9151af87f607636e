// Package docs holds what programs serve of the generated documents. It has no code.
package docs

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document of the gateway.
//
//go:embed openapi.json
var OpenAPI []byte
