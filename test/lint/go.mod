// What make check runs over the code beside the tests, apart from the module: it brings modules of its own.
module github.com/inspan/inspan/test/lint

go 1.26.0

require (
	codeberg.org/polyfloyd/go-errorlint v1.9.0
	github.com/ashanbrown/forbidigo/v2 v2.3.1
	github.com/nishanths/exhaustive v0.15.0
	golang.org/x/tools v0.52.0
)

require (
	github.com/google/go-cmp v0.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.4 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
