"""Validates Kubernetes objects against the schemas of Kubernetes and of custom resources.

Arguments: the oldest version of Kubernetes, and files or folders with CustomResourceDefinitions.
Input: the objects as YAML. Output: a line with the versions from the oldest to the newest that has schemas, and one problem per line.
"""
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml
from kubernetes_validate.utils import all_versions

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def strict(schema):
    """Rejects unknown fields, as `kubectl apply --validate=strict` does."""
    if isinstance(schema, dict):
        schema = {name: strict(value) for name, value in schema.items()}
        if schema.get("type") == "object" and "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        if schema.pop("x-kubernetes-int-or-string", False):
            schema = {"type": ["integer", "string"]}
        return schema
    return [strict(value) for value in schema] if isinstance(schema, list) else schema


def custom_schemas(paths):
    found = {}
    for path in map(Path, paths):
        for file in [path] if path.is_file() else sorted(path.glob("*.yaml")):
            for crd in yaml.load_all(file.read_text(), Loader):
                if not crd or crd.get("kind") != "CustomResourceDefinition":
                    continue
                spec = crd["spec"]
                for version in spec["versions"]:
                    schema = strict(version["schema"]["openAPIV3Schema"])
                    # A CustomResourceDefinition does not describe the metadata.
                    schema["properties"]["metadata"] = {"type": "object"}
                    found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def problems(item, versions, customs):
    custom = customs.get((item["apiVersion"], item["kind"]))
    if custom is not None:
        for error in jsonschema.Draft202012Validator(custom).iter_errors(item):
            yield f"{error.json_path}: {error.message[:300]}"
        return
    for version in versions:
        try:
            kubernetes_validate.validate(item, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message[:300]}"
        except kubernetes_validate.SchemaNotFoundError as error:
            yield f"Kubernetes {version}: {error.message}"


def versions_from(oldest):
    # The package lists each version twice: with its schemas, and with its strict schemas.
    known = list(dict.fromkeys(version.rsplit(".", 1)[0] for version in all_versions()))
    return known[known.index(oldest) :]


versions = versions_from(sys.argv[1])
print(*versions)
customs = custom_schemas(sys.argv[2:])
for item in yaml.load_all(sys.stdin, Loader):
    for problem in problems(item, versions, customs) if item else ():
        print(f"{item['kind']} {item['metadata']['name']}: {problem}")
