package catalog

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// FromYAML turns a YAML file into the JSON that Read takes; members keep their order. Aliases are refused: a few lines of
// them can stand for gigabytes.
func FromYAML(file []byte) ([]byte, error) {
	if len(file) > MaxFile {
		return nil, errSize
	}
	parsed, err := parser.ParseBytes(file, 0)
	if err != nil {
		return nil, fmt.Errorf("not YAML: %s", yaml.FormatError(err, false, true))
	}
	if len(parsed.Docs) != 1 || parsed.Docs[0].Body == nil {
		return nil, errors.New("a catalog is one YAML document")
	}
	var plain plainOnly
	ast.Walk(&plain, parsed.Docs[0])
	if plain.alias != nil {
		return nil, fmt.Errorf("line %d: aliases are not for catalogs; write it out", plain.alias.GetToken().Position.Line)
	}
	out, err := yaml.YAMLToJSON(file)
	if err != nil {
		return nil, fmt.Errorf("not YAML: %s", yaml.FormatError(err, false, true))
	}
	return out, nil
}

// plainOnly finds an alias.
type plainOnly struct{ alias ast.Node }

func (p *plainOnly) Visit(n ast.Node) ast.Visitor {
	if _, is := n.(*ast.AliasNode); is {
		p.alias = n
	}
	if p.alias != nil {
		return nil
	}
	return p
}
