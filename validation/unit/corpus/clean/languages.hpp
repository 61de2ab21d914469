// SPDX-License-Identifier: Apache-2.0
// A sentence or two in twelve languages and eight scripts, written for these tests.
#pragma once

#include <string>
#include <vector>

namespace espalier::testing {

struct LanguageSample {
  const char* tag;
  std::string text;
};

inline const std::vector<LanguageSample>& language_samples() {
  static const std::vector<LanguageSample> samples = {
      {"en", "The gardener ties young branches to the lattice, so that the tree grows flat."},
      {"de", "Der Gärtner bindet die jungen Äste ans Spalier, damit der Baum flach wächst."},
      {"fr",
       "Le jardinier attache les jeunes branches au treillis pour que l’arbre pousse à plat."},
      {"ru", "Садовник привязывает молодые ветви к решётке, чтобы дерево росло плоским."},
      {"el", "Ο κηπουρός δένει τα νεαρά κλαδιά στο πλέγμα, ώστε το δέντρο να μεγαλώνει επίπεδο."},
      {"sr", "Баштован везује младе гране за решетку. Drvo zato raste ravno."},
      {"zh", "园丁把嫩枝绑在架子上，让树贴着墙平平地生长。"},
      {"ja", "庭師は若い枝を格子に結び、木が平らに育つようにする。カタカナもある。"},
      {"ko", "정원사는 어린 가지를 격자에 묶어 나무가 납작하게 자라도록 한다."},
      {"ar", "يربط البستاني الأغصان الصغيرة بالشبكة لتنمو الشجرة مسطحة."},
      {"hi", "माली छोटी शाखाओं को जाली से बाँधता है ताकि पेड़ सपाट बढ़े।"},
      {"th", "คนสวนผูกกิ่งอ่อนไว้กับโครงไม้ เพื่อให้ต้นไม้โตแบนราบ"}};
  return samples;
}

}  // namespace espalier::testing
