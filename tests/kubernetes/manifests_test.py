#!/usr/bin/env python3
"""The manifests of examples/kubernetes have only fields that Kubernetes has, as the schemas of its API say, and fit together.

manifests_test.py SOURCE_DIR WORK_DIR      WORK_DIR keeps the environment that has the schemas, which are fetched once"""

import copy
import pathlib
import re
import subprocess
import sys
import time

OLDEST, NEWEST = "1.32", "1.37"


def fail(*what):
    sys.exit("manifests_test: " + " ".join(map(str, what)))


def again_with_schemas(work):
    """Runs this test by a Python that has them."""
    venv = work / "venv"
    if sys.prefix == str(venv):
        fail("the schemas are installed, and cannot be read")
    requirements = pathlib.Path(__file__).with_name("requirements.txt")
    installed = venv / "requirements.txt"  # as they were
    if not installed.exists() or installed.read_text() != requirements.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        install = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
        for pause in (5, 20, 60):  # a registry may not answer at once
            if subprocess.run(install).returncode == 0:
                break
            time.sleep(pause)
        else:
            fail("the schemas cannot be fetched: is the network there?")
        installed.write_text(requirements.read_text())
    sys.exit(subprocess.run([venv / "bin/python", *sys.argv]).returncode)


def faults(kubernetes_validate, manifest):
    try:
        for version in (OLDEST, NEWEST):
            kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return error.message
    return None


def fits(documents, version):
    """What no schema says: that the labels, ports and names of one manifest are those of another."""
    by_kind = {document["kind"]: document for document in documents}
    label = by_kind["Service"]["spec"]["selector"]
    policy = by_kind["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == label
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == label
    assert by_kind["Deployment"]["spec"]["replicas"] >= 2
    assert by_kind["StatefulSet"]["spec"]["replicas"] == 1, "two would give the same ids"
    assert by_kind["StatefulSet"]["spec"]["serviceName"] == by_kind["Service"]["metadata"]["name"]
    for kind in ("Deployment", "StatefulSet"):
        spec = by_kind[kind]["spec"]
        pod = spec["template"]["spec"]
        assert spec["selector"]["matchLabels"] == label == spec["template"]["metadata"]["labels"], kind
        (container,) = pod["containers"]
        assert container["image"].endswith(f"/idmintd:{version}"), container["image"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports == {"redis": 7379, "http": 7380}
        assert {port["targetPort"]: port["port"] for port in by_kind["Service"]["spec"]["ports"]} == ports
        assert {port["port"] for port in policy["ingress"][0]["ports"]} == set(ports)
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (7379, 7379)
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts == {"settings": "/etc/idmint", "data": "/var/lib/idmint"}
        volumes = pod["volumes"] + [each["metadata"] for each in spec.get("volumeClaimTemplates", [])]
        assert {volume["name"] for volume in volumes} == set(mounts)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["exec"]["command"][:2] == ["idmintd", "probe"]
            assert container[probe]["timeoutSeconds"] > 5, "the probe itself gives up after 5 s"


def main():
    source, work = map(pathlib.Path, sys.argv[1:])
    try:
        import kubernetes_validate
        import yaml
    except ImportError:
        again_with_schemas(work)
    documents = [document for path in sorted((source / "examples/kubernetes").glob("*.yaml"))
                 for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    for document in documents:
        if fault := faults(kubernetes_validate, document):
            fail(document["kind"], fault)
        # A field that does not exist is found wherever it is.
        wrong = copy.deepcopy(document)
        wrong["spec"]["replicaz"] = 1
        if not faults(kubernetes_validate, wrong):
            fail(document["kind"], "may have a field that Kubernetes does not know: the schemas are not strict")
    header = (source / "include/idmint/idmint.h").read_text(encoding="utf-8")
    fits(documents, re.search(r'#define IDMINT_VERSION "(.*)"', header)[1])
    print(f"{len(documents)} manifests are what Kubernetes {OLDEST} and {NEWEST} understand")


main()
